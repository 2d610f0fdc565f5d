"""The version of this software: of both distributions, of records, of what commands print."""

VERSION = "0.3.0"
