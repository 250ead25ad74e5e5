package skillsharing

// Followers is how many runs are being followed.
func (c *Client) Followers() int {
	c.followers.mu.Lock()
	defer c.followers.mu.Unlock()
	return len(c.followers.runs)
}
