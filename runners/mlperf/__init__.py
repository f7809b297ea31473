"""MLPerf Storage: its workloads and rules as data, its results read in, and DLIO, the program that emulates the training."""
