"""What params.yaml means: its settings, its cells, and where everything lies."""
