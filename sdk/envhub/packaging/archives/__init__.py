"""Archives that nobody trusts, read under budgets; and those that are made."""
