"""Numbers: results by model, intervals, tests, published values, costs."""
