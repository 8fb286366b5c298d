"""MLflow's mirror of the records; the only package that knows MLflow."""
