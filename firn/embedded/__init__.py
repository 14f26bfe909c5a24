"""Parts of a data platform that Firn can start itself on one machine, each as a child process.

For trying out, tests and small installations.  Nothing here outlives the process that started it.
"""
