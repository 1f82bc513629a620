"""What drivers do when there is more to do than can be done, or callers that give up."""
