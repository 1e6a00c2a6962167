"""`python -m bireme.distributed.launch`."""

from bireme.distributed.launch.main import launch

if __name__ == "__main__":
    launch()
