"""The plots of a session, made with matplotlib, as SVG that follows the colours of the page around it."""
