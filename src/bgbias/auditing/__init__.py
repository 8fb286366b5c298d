"""Any model on any photos: how much it loses when only the background changes. No training, no params.yaml.

The function and the command are called ``audit``; a package of that name would hide the function.
"""
