"""Programs on the vendors' clients, each run in the environment that has the client."""
