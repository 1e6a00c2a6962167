"""`python -m bireme.distributed.launch script.py`: run a program in a world of processes."""
