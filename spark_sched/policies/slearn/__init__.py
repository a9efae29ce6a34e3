"""SLearn (Jajoo et al.): pilot tasks, queues by size, and the schemes it is compared with."""
