"""The public benchmark of drivers (mongodb/specifications, "Performance Benchmarking"), for all of them in one run.

Left out are its BSON tasks, which measure the package `bson` and no driver.
"""
