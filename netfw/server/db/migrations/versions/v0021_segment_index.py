"""An index of segments by type, physical network and id."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

NAME = "ix_segments_network_type_physical_network_segmentation_id"


def upgrade() -> None:
    """Create the index, by which network segment ranges find the ids in use."""
    op.create_index(NAME, "segments", ["network_type", "physical_network", "segmentation_id"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index(NAME, "segments")
