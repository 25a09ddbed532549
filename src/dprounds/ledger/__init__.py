"""The budget ledger: one budget, many jobs, nothing lost."""
