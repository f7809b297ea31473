"""Starting a job's ranks on hosts, and ending them everywhere: by hand (here, ssh) or with mpirun and srun."""
