"""Running a cut segment: looking its program up, choosing the executor, and explaining what happened."""
