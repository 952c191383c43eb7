"""One check run from request to answer: the checking process, its engines, who asks and who works."""
