"""SLearn (Jajoo et al.): pilot tasks, queues by size, and the schedulers that the paper compares it with."""
