"""Printed reports, and the fingerprint of the settings that they show."""
