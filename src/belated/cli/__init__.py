"""The command line: `belated`."""
