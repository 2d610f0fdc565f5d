"""What `obsmask doctor` looks at: small checks, each of which yields what it found."""
