"""The recording studio: real clients in front of a scripted provider."""
