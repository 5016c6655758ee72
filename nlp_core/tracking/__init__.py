"""The import of finished runs into MLflow."""
