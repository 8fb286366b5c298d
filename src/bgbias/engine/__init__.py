"""What has to run: what nodes read, digests, records, freshness, going on after a kill."""
