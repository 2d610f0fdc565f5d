"""The core behind Envoy, as an external processor (ext_proc v3, over gRPC)."""
