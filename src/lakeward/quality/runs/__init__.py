"""A check run from request to answer: request, claim, checking process, engines, run."""
