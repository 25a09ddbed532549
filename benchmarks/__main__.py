"""Every benchmark, one after the other: `make bench`. That of the page, `benchmarks.load`, is asked for by itself."""

from benchmarks import cli, comparison, conversions, exact, integrations, loaders, mechanisms

conversions.main()
mechanisms.main()
exact.main()
loaders.main()
cli.main()
integrations.main()
comparison.main()
