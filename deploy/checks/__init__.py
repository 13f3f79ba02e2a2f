"""What check.py checks, one file for each kind of check."""
