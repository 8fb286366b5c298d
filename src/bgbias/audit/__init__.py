"""The audit: how much any model loses on anybody's photos when only the background changes. No training, no params.yaml."""
