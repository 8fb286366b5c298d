"""What training minimises: one file a loss, with its settings and its distance.

Only this folder imports pytorch-metric-learning.
"""
