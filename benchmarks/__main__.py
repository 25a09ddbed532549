"""Every benchmark, one after the other: `make bench`."""

from benchmarks import comparison, conversions, exact, mechanisms

conversions.main()
mechanisms.main()
exact.main()
comparison.main()
