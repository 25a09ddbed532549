"""Speed, as ratios against peers in one run, because machines are noisy."""
