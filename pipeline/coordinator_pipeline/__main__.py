"""Runs `coordinator-pipeline` as `python -m coordinator_pipeline`."""

from coordinator_pipeline.cli import main

if __name__ == "__main__":
    main()
