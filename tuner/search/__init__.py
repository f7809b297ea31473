"""Which setting to measure next, which deserve a race, and when more search can't pay."""
