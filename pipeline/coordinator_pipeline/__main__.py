"""`python -m pipeline` is `coordinator-pipeline`."""

from coordinator_pipeline.cli import main

if __name__ == "__main__":
    main()
