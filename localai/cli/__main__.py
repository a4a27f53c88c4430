"""`python -m localai.cli`: the same as the console script."""

from localai.cli.main import main

if __name__ == "__main__":
    main()
