"""Collection: raw hits become sessions of users, each with the node of its traffic source."""
