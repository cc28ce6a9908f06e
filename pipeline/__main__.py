"""`python -m pipeline` is `coordinator-pipeline`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
