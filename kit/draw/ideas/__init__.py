"""One figure per idea of the course: few elements, with the words on the picture instead of in a legend."""
