"""Builds the files of an image with PyArrow: a keyed table as one ordinary table (docs/protocols.md#images).

`changes` reads pending changes, and `firn.scan.newest` finds the newest of each key. `positions` finds these keys in
base, `packs` and `hidden` write the image's files, and `layer` does all of it for one pair of snapshots. No JVM takes
part.
"""
