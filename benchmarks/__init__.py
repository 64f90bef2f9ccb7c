"""What the engine costs, beside baselines measured in the same run; ``make bench``."""
