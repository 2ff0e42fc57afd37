"""Ways to run the same ``Network`` faster. What comes out is what the wrapped network computes."""
