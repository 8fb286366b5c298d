"""Any model on any photos: an audit needs no training, no params.yaml and nothing that somebody has to prepare."""
