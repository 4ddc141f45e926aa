"""Site-wide pages: base layout, home, sign-in, error pages."""
