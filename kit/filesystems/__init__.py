"""The file layer: a few operations on files, wherever they are. All other packages read and write files through it."""
