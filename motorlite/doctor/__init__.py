"""Pure: the package of ``python -m motorlite.doctor``, which finds out why a client does not connect.

The shell `_examination` collects facts with the driver's own parts. The pure modules judge them: each function takes
facts and returns findings. What prints findings (`_rendering`) knows nothing about servers.
"""
