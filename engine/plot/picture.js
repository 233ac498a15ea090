// Puts the values under the pointer into the legend: of each curve the point that is nearest to the pointer, and in
// parentheses the smoothed one.
for (const diagram of document.querySelectorAll('.diagram')) {
  const title = diagram.querySelector('.x'), line = diagram.querySelector('.at')
  const texts = [title, ...diagram.querySelectorAll('.value')], before = texts.map(text => text.textContent)
  diagram.onpointermove = event => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(diagram.getScreenCTM().inverse()).x
    const near = [...diagram.querySelectorAll('polyline')].map(curve => {
      const distance = i => Math.abs(curve.points[i].x - x)
      let best = 0
      for (let i = 1; i < curve.points.length; i++) if (distance(i) < distance(best)) best = i
      const [step, value] = curve.dataset.values.split(' ')[best].split(',')
      return { row: curve.dataset.row, step, value, pixel: curve.points[best].x, distance: distance(best) }
    })
    const first = near.reduce((a, b) => b.distance < a.distance ? b : a)
    title.textContent = `${before[0]} ${first.step}`
    texts.slice(1).forEach((text, row) => {
      const [raw, smooth] = near.filter(point => point.row == row)
      if (raw) text.textContent = raw.value + (smooth ? ` (${smooth.value})` : '') +
        (raw.step == first.step ? '' : ` at ${raw.step}`)
    })
    line.setAttribute('transform', `translate(${first.pixel})`)
    line.style.display = ''
  }
  diagram.onpointerleave = () => {
    texts.forEach((text, i) => text.textContent = before[i])
    line.style.display = 'none'
  }
}
