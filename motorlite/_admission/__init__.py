"""Pure: who may send now: wait queues, rate limits, breakers and concurrency limits."""
