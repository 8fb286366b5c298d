"""From the nearest neighbours of each query to one number a query."""
