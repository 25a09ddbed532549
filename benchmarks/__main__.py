"""Every benchmark, one after the other: `make bench`."""

from benchmarks import conversions, mechanisms

conversions.main()
mechanisms.main()
