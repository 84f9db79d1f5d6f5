// The outline of kernels whose work is read from memory: one warp finds items, the other roles take them.

// Ranges: a group's tiles begin where the range does; a whole tile leaves by a copy, the last one row by row out of shared memory.
// RUN: scalec compile 'C[m,n] = A[m,k] @ B[g,n,k] for m in off[g]:off[g+1]' --dim n=72,k=200 --schedule tile=64x32x64,swap=0,epilogue=bulk --emit tile | filecheck %s --check-prefix=RANGE
// RANGE: %[[SLOTS:.*]] = "tile.items"() {{.*}} -> !tile.item_slots<4 : i64, 4 : i64>
// four consumer warps and the one that copies take each item
// RANGE: "tile.ring"() {depth = 4 : i64, empty = 5 : i64, full = 1 : i64
// RANGE: "tile.role"
// RANGE: "tile.work"(%{{.*}}, %{{.*}}, %[[SLOTS]]) ({
// RANGE-NEXT: ^bb0(%[[M0:.*]]: i32, %[[N0:.*]]: i32, %[[UPTO:.*]]: i32, %[[G:.*]]: i32):
// RANGE: %[[LAST:.*]] = arith.addi %[[M0]], %c63_i32
// RANGE: %[[WHOLE:.*]] = arith.cmpi ult, %[[LAST]], %[[UPTO]]
// RANGE: "tile.when"(%[[WHOLE]]) ({
// RANGE-NEXT: "tile.store"
// RANGE: "tile.when"
// RANGE: "tile.store_staged"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[M0]], %[[N0]], %[[UPTO]], %c72_i32)
// RANGE: "tile.work"
// RANGE: "tile.copy"
// RANGE: "tile.view"
// RANGE: "tile.copy"
// RANGE: "tile.ragged_tiles"
// RANGE: "tile.load_index"
// RANGE: "tile.load_index"
// RANGE: "tile.bounds"
// RANGE: "tile.post"(%{{.*}}, %{{.*}}, %[[SLOTS]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// RANGE-NOT: "tile.advance"
// RANGE: "tile.post"(%{{.*}}, %{{.*}}, %[[SLOTS]]) {operandSegmentSizes = array<i32: 1, 1, 1, 0>}

// Blocks of whole tiles: no end, and an index that leads nowhere is no item.
// RUN: scalec compile 'C[m,n] = A[m,k] @ B[e[m/128],n,k]' --dim n=72,k=200 --schedule tile=64x32x64,cluster=1x1,swap=0,epilogue=bulk --emit tile | filecheck %s --check-prefix=BLOCK
// BLOCK-NOT: tile.ragged_tiles
// BLOCK: "tile.work"
// BLOCK: "tile.store"
// BLOCK-NOT: tile.store_staged
// BLOCK: "tile.tiles"
// BLOCK: %[[E:.*]] = "tile.load_index"
// BLOCK: %[[LEADS:.*]] = arith.cmpi ult, %[[E]]
// BLOCK: "tile.when"(%[[LEADS]]) ({
// BLOCK: "tile.post"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[E]], %{{.*}})

// Blocks of fewer rows than a tile: tiles begin where a run of blocks with one index does, and all tiles of a cluster look
// up one index, that of the run's last row where they begin behind it.
// RUN: scalec compile 'C[m,n] = A[m,k] @ B[e[m/8],n,k]' --dim n=72,k=200 --schedule tile=64x32x64,cluster=2x1,swap=0 --emit tile | filecheck %s --check-prefix=SMALL
// SMALL: "tile.ragged_tiles"
// SMALL: %[[OUT:.*]]:2 = "tile.run"
// SMALL: %[[OF:.*]] = "tile.load_index"
// SMALL-NEXT: "tile.same"(%[[OF]])
// SMALL: arith.select %[[OUT]]#0
// SMALL: "tile.bounds"
// SMALL: ^bb0(%[[FIRST:.*]]: i32, %{{.*}}: i32, %{{.*}}: i32, %[[UNTIL:.*]]: i32, %{{.*}}: i32):
// SMALL: %[[BEFORE:.*]] = arith.subi %[[UNTIL]], %{{.*}}
// SMALL-NEXT: %[[AT:.*]] = arith.minui %[[FIRST]], %[[BEFORE]]
// SMALL: arith.divui %[[AT]]
// SMALL: "tile.load_index"

// An index that depends on another dimension too: each block is a range of its own.
// RUN: scalec compile 'C[b,m,n] = A[b,m,k] @ B[e[b,m/8],n,k]' --dim n=72,k=200 --schedule tile=64x32x64,swap=0 --emit tile | filecheck %s --check-prefix=EACH
// EACH: "tile.ragged_tiles"
// EACH-NOT: tile.run
// EACH: "tile.bounds"

// Groups of K that are apart: K blocks begin where the range does, and the scales of group g at low / 128 + g; those of
// an empty group, which begins behind all of K, two behind the last group's.
// RUN: scalec compile 'C[g,m,n]:f32 = A[m,k]@B[n,k] scale(1x128@col,128x128) for k in off[g]:off[g+1] by 16 apart' --dim m=512,n=512,k=1000 --target sm_90a --emit tile | filecheck %s --check-prefix=APART
// APART: "tile.role"
// APART: "tile.work"
// APART: "tile.role"
// APART: "tile.work"
// APART-NEXT: ^bb0({{.*}}, %{{.*}}: i32, %[[LOW:.*]]: i32, %{{.*}}: i32, %[[G:.*]]: i32, %{{.*}}: i32):
// APART: %[[BEHIND:.*]] = arith.addi %{{.*}}, %c1_i32
// APART-NEXT: %[[SOME:.*]] = arith.cmpi ult, %[[LOW]], %c1000_i32
// APART-NEXT: %[[OWN:.*]] = arith.select %[[SOME]], %[[G]], %[[BEHIND]]
// APART: %[[BLOCKS:.*]] = arith.divui %[[LOW]], %c128_i32
// APART-NEXT: %[[FIRST:.*]] = arith.addi %[[BLOCKS]], %[[OWN]]
// APART: %[[AT:.*]] = arith.muli %[[FIRST]], %c128_i32
// APART-NEXT: %[[MOVED:.*]] = arith.subi %[[AT]], %[[LOW]]
// APART: "tile.steps"
// APART: "tile.copy"
// APART-NEXT: "tile.copy"
// APART-NEXT: %[[K:.*]] = arith.addi %{{.*}}, %[[MOVED]]
// APART: %[[SCALE:.*]] = arith.divui %[[K]], %c128_i32
// APART-NEXT: "tile.copy"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALE]])
// APART: "tile.tiles"
