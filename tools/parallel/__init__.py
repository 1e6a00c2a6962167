"""Small models, and every way to train them in parallel."""
