"""``skipstone bench layerskip``: a checkpoint trained for early exits against the model it started from."""
